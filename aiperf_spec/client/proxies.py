"""Honour the proxy variables of the environment, which httpx leaves alone once it is given a transport."""

from __future__ import annotations

import os
from ipaddress import ip_address, ip_network

from aiperf_spec.config.server_url import Server


def proxy_for(server: Server) -> str | None:
    """Return the proxy that the environment names for this server, or None.

    Reads `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy` (lower case before upper, as curl does). Entries of
    `no_proxy` are host names with their subdomains, addresses, networks such as `fe80::/10`, or `*`; one that cannot be
    read matches nothing. Loopback addresses are never sent through a proxy: it would measure another machine's.
    """
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from urllib.request import getproxies_environment

    proxies = getproxies_environment()
    scheme = server.root.partition(":")[0]
    proxy = proxies.get(scheme) or proxies.get("all")
    if not proxy or _is_loopback(server.host) or _is_exempt(server, proxies.get("no", "")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost" or host.lower().endswith(".localhost")


def _is_exempt(server: Server, entries: str) -> bool:
    host = server.host.lower()
    authority = server.root.partition("://")[2].partition("/")[0].lower()
    for entry in (part.strip().lower() for part in entries.split(",")):
        if not entry:
            continue
        if entry == "*" or authority == entry:
            return True
        name = entry.strip("[]").removeprefix("*").removeprefix(".")
        if host == name or host.endswith(f".{name}") or _in_network(host, entry):
            return True
    return False


def _in_network(host: str, entry: str) -> bool:
    try:
        return ip_address(host) in ip_network(entry, strict=False)
    except ValueError:
        return False
