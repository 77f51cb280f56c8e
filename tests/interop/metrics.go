// SPDX-License-Identifier: MIT

// What asynq's own collector of metrics (x/metrics) shows of a server, in the text format.

package main

import (
	"strings"

	"github.com/hibiken/asynq"
	"github.com/hibiken/asynq/x/metrics"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

func collectMetrics(inspector *asynq.Inspector) (string, error) {
	registry := prometheus.NewRegistry()
	if err := registry.Register(metrics.NewQueueMetricsCollector(inspector)); err != nil {
		return "", err
	}
	families, err := registry.Gather()
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			return "", err
		}
	}
	return text.String(), nil
}
