"""What can be wrong with a question about a route."""

from __future__ import annotations

from specctl.errors import UsageError


class RouteUnknown(UsageError):
    """The base's record holds no rules for routes."""

    code = "route-unknown"
