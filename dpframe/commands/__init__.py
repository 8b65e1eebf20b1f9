"""The commands of dpframe, one verb each."""
