"""The engine on known truths: how often bounds exceed them."""
