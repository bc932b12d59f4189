"""Facts of turns: how they are drawn, what their history shows, and which of them a turn is reminded of."""
