"""Evidence at any time: bets against a claim, round by round."""
