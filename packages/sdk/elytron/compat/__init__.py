"""APIs of other memory libraries, for programs written for them."""
