"""Carry a request to a server and its response back, byte by byte as it arrives.

`direct` talks to a server itself; `through` asks an httpx transport, which is how a proxy is passed. Both hand what
arrives to a `Reader`, as it arrives: no task is woken for a piece of a response, so that its stamp is the time at which
it was read and not the time at which somebody got round to it.
"""
