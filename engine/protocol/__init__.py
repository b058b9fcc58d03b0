"""All that the application and the engine process say to each other. Standard library only."""
