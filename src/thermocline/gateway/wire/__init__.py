"""The Postgres wire protocol (version 3), server side, without a socket: bytes in, messages out."""
