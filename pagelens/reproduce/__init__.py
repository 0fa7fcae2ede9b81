"""Published figures beside those obtained here: studies, and the page and table of their claims."""
