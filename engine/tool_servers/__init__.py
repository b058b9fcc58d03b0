"""The program that holds the connections to MCP servers, whose tools answers of the window may call."""
