"""Serves a site's own monitoring: a textfile for node_exporter, alert rules, a dashboard."""

from pagelens.site.monitoring.metrics import metrics_text, monitoring_file, write_metrics

__all__ = ["metrics_text", "monitoring_file", "write_metrics"]
