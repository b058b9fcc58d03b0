"""From a folder to an engine that answers: plan, load, retry, and what earlier answers taught."""
