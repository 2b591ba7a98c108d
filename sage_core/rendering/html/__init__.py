"""Results as HTML: self-contained, without scripts or network, every foreign text escaped."""
