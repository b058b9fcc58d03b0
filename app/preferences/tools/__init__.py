"""The page of MCP servers: the list, a box for each, and the dialogs that add and change them."""
