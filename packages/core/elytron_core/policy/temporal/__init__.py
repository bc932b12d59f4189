"""Dates, ranges, anchors and freshness."""
