"""What all reports share: the style of HTML pages and of figures."""
