"""The command line: it parses options, calls the API, and prints the results."""
