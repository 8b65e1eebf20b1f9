"""Ask accountants the same questions, and compare their answers with an interval of the true ε."""
