"""Remedies that change where frames lie, without a kernel module."""
