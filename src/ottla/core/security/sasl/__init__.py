"""SASL on the server's side: state machines that take a client's bytes and give the answer's.

An exchange takes the bytes of one message after the other, and ends with a principal or a refusal.

    mechanism.py    what the exchanges of all mechanisms have in common
    plain.py        PLAIN (RFC 4616)
    scram.py        SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, 7677), delegation tokens among them (KIP-48)
    oauthbearer.py  OAUTHBEARER (RFC 7628); whether a token is good comes in as an event
    connection.py   the requests of one connection: handshake, exchange, re-authentication (KIP-368)
"""
