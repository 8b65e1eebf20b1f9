"""What is looked at before anything is believed: authors' code, their outputs, the first draws."""
