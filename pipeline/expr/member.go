package expr

import "github.com/weirstream/weir/pipeline"

// textSetMin is the length from which a list of constant texts is looked up in a set.
const textSetMin = 8

// compileIn makes "in": true when one element is equal, else null when one comparison was null, else false.
func compileIn(n *node) predFunc {
	var f predFunc
	switch {
	case n.ranged:
		f = inRange(compileValue(n.kids[0]), compileValue(n.kids[1]), compileValue(n.kids[2]))
	case len(n.kids) > textSetMin && constTexts(n.kids[1:]):
		f = inTexts(compileValue(n.kids[0]), n.kids[1:])
	default:
		f = inList(compileValue(n.kids[0]), compileAll(n.kids[1:]))
	}
	if n.negate {
		g := f
		return func(s []pipeline.Value) tri { return not(g(s)) }
	}
	return f
}

func inRange(a, low, high valueFunc) predFunc {
	return func(s []pipeline.Value) tri {
		v := a(s)
		t := compare(">=", v, low(s))
		if t == triError {
			return t
		}
		u := compare("<=", v, high(s))
		switch {
		case u == triError:
			return u
		case t == triFalse || u == triFalse:
			return triFalse
		case t == triNull || u == triNull:
			return triNull
		}
		return triTrue
	}
}

func inList(a valueFunc, list []valueFunc) predFunc {
	return func(s []pipeline.Value) tri {
		v := a(s)
		out := triFalse
		for _, f := range list {
			switch t := equal(v, f(s)); t {
			case triTrue, triError:
				return t
			case triNull:
				out = triNull
			}
		}
		return out
	}
}

func constTexts(kids []*node) bool {
	for _, k := range kids {
		if !k.isConst() || k.value.Kind != pipeline.String {
			return false
		}
	}
	return true
}

func inTexts(a valueFunc, kids []*node) predFunc {
	set := make(map[string]struct{}, len(kids))
	for _, k := range kids {
		set[k.value.Str] = struct{}{}
	}
	return func(s []pipeline.Value) tri {
		switch v := a(s); v.Kind {
		case pipeline.String:
			_, ok := set[v.Str]
			return triOf(ok)
		case pipeline.Null:
			return triNull
		case pipeline.Error:
			return triError
		}
		return triFalse
	}
}

// whyIn finds the error that made "in" fail.
func whyIn(n *node, all []valueFunc, s []pipeline.Value) pipeline.Value {
	v := all[0](s)
	for _, f := range all[1:] {
		w := f(s)
		if n.ranged && compare("<=", v, w) == triError || !n.ranged && equal(v, w) == triError {
			return refuse("in", v, w)
		}
	}
	return pipeline.ErrorValue("in failed")
}
