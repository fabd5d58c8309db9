"""Peers: the same requests on other engines, each in an environment of its own."""
