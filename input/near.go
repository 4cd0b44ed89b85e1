package input

// nearest returns the name that s is a misspelling of: the closest one, no more
// than two edits away and not all of a short word. "" if there is none.
func nearest(s string, names []string) string {
	best, near := "", min(2, len(s)/2)+1
	for _, n := range names {
		if d := edits(s, n); d < near {
			best, near = n, d
		}
	}
	return best
}

// edits counts the insertions, deletions, replacements and swaps of neighbours
// that make b of a. Names longer than 40 bytes are near nothing.
func edits(a, b string) int {
	if len(a) > 40 || len(b) > 40 {
		return 100
	}
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(row[j+1]+1, next[j]+1, row[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}
