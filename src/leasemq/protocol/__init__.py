"""The rules, as plain values in and plain values out."""
