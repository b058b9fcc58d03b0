"""The local server: clients ask over HTTP, as they ask OpenAI and Anthropic, the engine that the window asks too."""
