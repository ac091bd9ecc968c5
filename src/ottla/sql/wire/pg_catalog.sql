-- PostgreSQL's catalogue in DuckDB: its tables' columns, and its functions as macros.
CREATE TABLE pg_namespace (
    oid BIGINT, nspname VARCHAR, nspowner BIGINT, nspacl VARCHAR[]
);
CREATE TABLE pg_class (
    oid BIGINT, relname VARCHAR, relnamespace BIGINT, reltype BIGINT, relowner BIGINT, relam BIGINT,
    relkind VARCHAR, relnatts INTEGER, relhasindex BOOLEAN, relhasrules BOOLEAN,
    relhastriggers BOOLEAN, relrowsecurity BOOLEAN, relforcerowsecurity BOOLEAN,
    relispartition BOOLEAN, relpersistence VARCHAR, relreplident VARCHAR, reltablespace BIGINT,
    reloftype BIGINT, relchecks INTEGER, reltuples DOUBLE, relpages INTEGER, reltoastrelid BIGINT,
    reloptions VARCHAR[], relacl VARCHAR[], relpartbound VARCHAR, relisshared BOOLEAN
);
CREATE TABLE pg_attribute (
    attrelid BIGINT, attname VARCHAR, atttypid BIGINT, attlen INTEGER, attnum INTEGER,
    attndims INTEGER, atttypmod INTEGER, attnotnull BOOLEAN, atthasdef BOOLEAN, attisdropped BOOLEAN,
    attidentity VARCHAR, attgenerated VARCHAR, attcollation BIGINT, attstorage VARCHAR,
    attcompression VARCHAR, attstattarget INTEGER, attacl VARCHAR[], attinhcount INTEGER,
    attislocal BOOLEAN
);
CREATE TABLE pg_type (
    oid BIGINT, typname VARCHAR, typnamespace BIGINT, typowner BIGINT, typlen INTEGER,
    typtype VARCHAR, typcategory VARCHAR, typelem BIGINT, typarray BIGINT, typrelid BIGINT,
    typbasetype BIGINT, typtypmod INTEGER, typnotnull BOOLEAN, typdelim VARCHAR, typcollation BIGINT,
    typinput VARCHAR, typreceive VARCHAR, typdefault VARCHAR, typisdefined BOOLEAN
);
CREATE TABLE pg_index (
    indexrelid BIGINT, indrelid BIGINT, indnatts INTEGER, indnkeyatts INTEGER, indisunique BOOLEAN, indisprimary BOOLEAN,
    indisclustered BOOLEAN, indisvalid BOOLEAN, indisreplident BOOLEAN, indkey INTEGER[],
    indoption INTEGER[], indexprs VARCHAR, indpred VARCHAR
);
CREATE TABLE pg_constraint (
    oid BIGINT, conname VARCHAR, connamespace BIGINT, contype VARCHAR, conrelid BIGINT,
    confrelid BIGINT, conindid BIGINT, conkey INTEGER[], confkey INTEGER[], condeferrable BOOLEAN,
    condeferred BOOLEAN, conparentid BIGINT, confupdtype VARCHAR, confdeltype VARCHAR,
    convalidated BOOLEAN
);
CREATE TABLE pg_attrdef (
    oid BIGINT, adrelid BIGINT, adnum INTEGER, adbin VARCHAR
);
CREATE TABLE pg_description (
    objoid BIGINT, classoid BIGINT, objsubid INTEGER, description VARCHAR
);
CREATE TABLE pg_am (
    oid BIGINT, amname VARCHAR, amtype VARCHAR
);
CREATE TABLE pg_database (
    oid BIGINT, datname VARCHAR, datdba BIGINT, encoding INTEGER, datcollate VARCHAR,
    datctype VARCHAR, datistemplate BOOLEAN, datallowconn BOOLEAN, datlocprovider VARCHAR,
    daticulocale VARCHAR, datacl VARCHAR[]
);
CREATE TABLE pg_roles (
    oid BIGINT, rolname VARCHAR, rolsuper BOOLEAN, rolinherit BOOLEAN, rolcreaterole BOOLEAN,
    rolcreatedb BOOLEAN, rolcanlogin BOOLEAN, rolreplication BOOLEAN, rolconnlimit INTEGER,
    rolvaliduntil TIMESTAMP, rolbypassrls BOOLEAN
);
CREATE TABLE pg_inherits (
    inhrelid BIGINT, inhparent BIGINT, inhseqno INTEGER, inhdetachpending BOOLEAN
);
CREATE TABLE pg_policy (
    oid BIGINT, polname VARCHAR, polrelid BIGINT, polcmd VARCHAR, polpermissive BOOLEAN,
    polroles BIGINT[], polqual VARCHAR, polwithcheck VARCHAR
);
CREATE TABLE pg_trigger (
    oid BIGINT, tgrelid BIGINT, tgname VARCHAR, tgenabled VARCHAR, tgisinternal BOOLEAN,
    tgparentid BIGINT
);
CREATE TABLE pg_statistic_ext (
    oid BIGINT, stxrelid BIGINT, stxname VARCHAR, stxnamespace BIGINT, stxkind VARCHAR[],
    stxkeys INTEGER[], stxstattarget INTEGER
);
CREATE TABLE pg_publication (
    oid BIGINT, pubname VARCHAR, puballtables BOOLEAN
);
CREATE TABLE pg_publication_rel (
    oid BIGINT, prpubid BIGINT, prrelid BIGINT, prqual VARCHAR, prattrs INTEGER[]
);
CREATE TABLE pg_publication_namespace (
    oid BIGINT, pnpubid BIGINT, pnnspid BIGINT
);
CREATE TABLE pg_proc (
    oid BIGINT, proname VARCHAR, pronamespace BIGINT, prokind VARCHAR, prorettype BIGINT,
    proargtypes VARCHAR, prolang BIGINT
);
CREATE TABLE pg_enum (
    oid BIGINT, enumtypid BIGINT, enumlabel VARCHAR, enumsortorder DOUBLE
);
CREATE TABLE pg_range (
    rngtypid BIGINT, rngsubtype BIGINT
);
CREATE TABLE pg_collation (
    oid BIGINT, collname VARCHAR, collnamespace BIGINT
);
CREATE TABLE pg_settings (
    name VARCHAR, setting VARCHAR
);
CREATE MACRO pg_get_userbyid(x) AS 'ottla';
CREATE MACRO pg_table_is_visible(x) AS true;
CREATE MACRO pg_type_is_visible(x) AS true;
CREATE MACRO pg_function_is_visible(x) AS true;
CREATE MACRO pg_get_indexdef(x) AS NULL, (x, y, z) AS NULL;
CREATE MACRO pg_get_constraintdef(x) AS NULL, (x, y) AS NULL;
CREATE MACRO pg_get_expr(x, y) AS NULL, (x, y, z) AS NULL;
CREATE MACRO pg_get_partkeydef(x) AS NULL;
CREATE MACRO pg_get_statisticsobjdef_columns(x) AS NULL;
CREATE MACRO pg_relation_is_publishable(x) AS false;
CREATE MACRO pg_encoding_to_char(x) AS 'UTF8';
CREATE MACRO obj_description(x) AS NULL, (x, y) AS NULL;
CREATE MACRO col_description(x, y) AS NULL;
CREATE MACRO shobj_description(x, y) AS NULL;
CREATE MACRO has_table_privilege(x, y) AS true, (x, y, z) AS true;
CREATE MACRO has_schema_privilege(x, y) AS true, (x, y, z) AS true;
CREATE MACRO pg_is_in_recovery() AS false;
CREATE MACRO pg_backend_pid() AS 1;
CREATE MACRO current_setting(x) AS '', (x, y) AS '';
CREATE MACRO set_config(x, y, z) AS y;
CREATE MACRO format_type(x, y) AS (SELECT CASE formatted.typname
    WHEN 'int4' THEN 'integer'
    WHEN 'int8' THEN 'bigint'
    WHEN 'float8' THEN 'double precision'
    WHEN 'bool' THEN 'boolean'
    WHEN 'timestamp' THEN 'timestamp without time zone'
    WHEN 'time' THEN 'time without time zone'
    WHEN 'numeric' THEN CASE WHEN y > 4 THEN printf('numeric(%d,%d)', (y - 4) >> 16, (y - 4) & 65535)
    ELSE 'numeric' END
    ELSE CASE WHEN formatted.typname LIKE '\_%' ESCAPE '\' THEN substr(formatted.typname, 2) || '[]'
    ELSE formatted.typname END END
    FROM pg_type formatted WHERE formatted.oid = x);
CREATE TABLE pg_auth_members (
    roleid BIGINT, member BIGINT, grantor BIGINT, admin_option BOOLEAN
);
CREATE TABLE pg_language (
    oid BIGINT, lanname VARCHAR
);
CREATE TABLE pg_foreign_table (
    ftrelid BIGINT, ftserver BIGINT, ftoptions VARCHAR[]
);
CREATE TABLE pg_foreign_server (
    oid BIGINT, srvname VARCHAR
);
CREATE TABLE pg_tablespace (
    oid BIGINT, spcname VARCHAR
);
CREATE MACRO array_upper(x, y) AS len(x);
CREATE MACRO array_lower(x, y) AS 1;
CREATE MACRO pg_get_function_result(x) AS NULL;
CREATE MACRO pg_get_function_arguments(x) AS NULL;
CREATE MACRO pg_get_function_identity_arguments(x) AS NULL;
CREATE MACRO pg_get_viewdef(x) AS NULL, (x, y) AS NULL;
CREATE MACRO pg_get_ruledef(x) AS NULL, (x, y) AS NULL;
CREATE MACRO pg_tablespace_location(x) AS NULL;
CREATE MACRO pg_total_relation_size(x) AS 0;
CREATE MACRO pg_table_size(x) AS 0;
CREATE MACRO pg_relation_size(x) AS 0;
CREATE MACRO pg_has_role(x, y) AS true, (x, y, z) AS true;
CREATE MACRO quote_ident(x) AS x;
CREATE MACRO _pg_expandarray(a) AS unnest(list_transform(range(1, len(a) + 1), i -> {'x': a[i], 'n': i}));
