"""What stands in a block beside recalled memories."""
