package command

import (
	"regexp"

	"llmbatch/runner"
)

// price is what a model's tokens cost; false if that is not known. The price
// flags hold for all models. Those of the command line and the environment come
// before the prices section of the settings file, those of the file itself after.
func (o *options) price(model string) (runner.Price, bool) {
	general, typed := o.generalPrice()
	if typed {
		return general, true
	}
	for _, name := range []string{model, dated.ReplaceAllString(model, "")} {
		if p, ok := o.prices[name]; ok {
			return runner.Price{Input: p.input, Output: p.output, CacheRead: p.cacheRead, CacheWrite: p.cacheWrite}, true
		}
	}
	return general, general != runner.Price{}
}

// dated is the date at the end of a model's full name.
var dated = regexp.MustCompile(`-(20\d{6}|20\d\d-\d\d-\d\d)$`)

// generalPrice is that of the flags; typed means not from the settings file.
func (o *options) generalPrice() (p runner.Price, typed bool) {
	c := price{o.priceInput, o.priceOutput, o.priceCacheRead, o.priceCacheWrite}
	for flag, cached := range map[string]*float64{"price-cache-read": &c.cacheRead, "price-cache-write": &c.cacheWrite} {
		if o.from[flag] == fromDefault {
			*cached = -1
		}
	}
	c = c.complete()
	for _, flag := range []string{"price-input", "price-output"} {
		typed = typed || o.from[flag] == "flag" || o.from[flag] == envName(flag)
	}
	return runner.Price{Input: c.input, Output: c.output, CacheRead: c.cacheRead, CacheWrite: c.cacheWrite}, typed
}
