"""Connectors of one's own, as a package would bring them: what changes is one part of the HTTP connector."""
