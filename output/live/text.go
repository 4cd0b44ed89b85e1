package live

import (
	"io"
	"log/slog"
	"time"
)

// Handler is a log handler that writes to w: text for people (time of day, level,
// message, key=value) or, with format "json", one object a line. A nil level means Info.
func Handler(w io.Writer, format string, level slog.Leveler) slog.Handler {
	if level == nil {
		level = slog.LevelInfo
	}
	if format == "json" {
		return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: utc})
	}
	return slog.NewTextHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: shortTime})
}

// utc writes a record's time as the rows do.
func utc(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Time(slog.TimeKey, a.Value.Time().UTC())
	}
	return a
}

// shortTime leaves the second: a log beside a line that counts needs no microseconds.
func shortTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.String(slog.TimeKey, a.Value.Time().Format(time.RFC3339))
	}
	return a
}
