"""What is known of the machine that pagelens runs on, read under a root directory."""
