"""Parts of a block beside recalled memories."""
