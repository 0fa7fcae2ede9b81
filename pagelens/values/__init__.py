"""Values with a unit and a source, and the TOML files that state them."""
