"""Migrations: numbered files of statements that a server of SQL carries out once, in their order."""
