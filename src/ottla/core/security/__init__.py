"""Authentication and authorization without I/O: principals, SASL exchanges, delegation tokens, ACLs.

Time and random bits come in with the calls; a wait goes out as a number of milliseconds. Secrets are compared
in constant time and are in no error text.

    principals.py           the principal of a client, and the mapping rules for names of certificates
    distinguished_names.py  a certificate's subject as Java prints it
    sasl/                   SASL exchanges, and the SASL state of a connection
    delegation_tokens.py    tokens, their HMACs, and tokens as SCRAM credentials (KIP-48)
    acls.py                 ACLs and filters over them
    authorizer.py           what a principal may do, by ACLs
"""
