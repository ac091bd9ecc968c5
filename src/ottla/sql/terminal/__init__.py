"""What a terminal needs of a server: its REST API, a session of statements, and answers as tables."""
