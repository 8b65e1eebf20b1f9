"""The default: events beyond order statistics of the scores."""
