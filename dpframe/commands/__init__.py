"""What dpframe can be asked to do: one verb each."""
