package input

// nearest returns the name that s is a misspelling of: the closest one, no more
// than two edits away and not all of a short word. "" if there is none.
func nearest(s string, names []string) string {
	best, near := "", min(2, len(s)/2)+1
	for _, n := range names {
		if len(s) > 40 || len(n) > 40 {
			continue // a text, not a name
		}
		if d := Distance(s, n); d < near {
			best, near = n, d
		}
	}
	return best
}

// Distance counts the bytes to insert, delete, replace or swap with their
// neighbour to make b of a (optimal string alignment).
func Distance(a, b string) int {
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
