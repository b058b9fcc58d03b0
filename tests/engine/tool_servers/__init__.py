"""Connections to MCP servers: real ones, and such as nobody would want."""
