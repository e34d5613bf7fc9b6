//! Pictures of a replay as SVG: Gantt chart, utilisation and backlog over time.
