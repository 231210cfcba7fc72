package central

// phase is what an upload waits for.
type phase uint8

const (
	phaseIdle    phase = iota
	phaseHead          // read the head
	phaseChain         // compare the chain with a list of the store
	phaseBuild         // make manifest and index
	phaseLook          // read object `at`: it may be there
	phasePut           // put it
	phaseCheck         // read it back
	phaseClaim         // ask the claim
	phaseMove          // replace the head
	phaseConfirm       // read the head back
	phaseNote          // note it
	phaseDrop          // give the upload up: a new base is wanted
	phaseFenced
)

// progress is how far an upload is. Next moves it on.
type progress struct {
	phase phase
	at    int // object
}

// outcome is what a step came to.
type outcome uint8

const (
	outDone    outcome = iota
	outDiffers         // an object is not there, or not whole
	outFailed          // not known: the step is tried again, after a while
	outFenced
	outChanged // the head was changed by somebody
	// of the head
	outOurs  // it names this upload's manifest
	outLast  // it names what this upload goes on from, or there is neither
	outOlder // the store has forgotten what was noted
	outNewer // somebody has gone on
)

// facts are what Next has to know of an upload.
type facts struct {
	objects int  // to be put; the manifest is the last
	built   bool // the manifest is made
	fresh   int  // objects from there on were put by nobody: looking first is in vain
	plant   *planted
}

// next is the whole order of an upload (FORMAT.md): facts in, step out. What it gives is what to do now.
func next(p progress, f facts, o outcome) progress {
	switch o {
	case outFailed:
		if p.phase == phasePut { // the answer may have been lost: look before it is put again
			return progress{phaseLook, p.at}
		}
		if p.phase == phaseMove { // as well
			return progress{phaseHead, 0}
		}
		return p
	case outFenced:
		return progress{phaseFenced, 0}
	}
	switch p.phase {
	case phaseIdle:
		return progress{phaseHead, 0}
	case phaseHead:
		switch o {
		case outOurs:
			return progress{phaseNote, 0}
		case outNewer:
			return progress{phaseDrop, 0}
		case outOlder:
			return progress{phaseChain, 0}
		}
		return begin(f)
	case phaseChain:
		if o == outDiffers && !f.plant.trusting {
			return progress{phaseDrop, 0}
		}
		return begin(f)
	case phaseBuild:
		if f.plant.headFirst {
			return progress{phaseMove, 0}
		}
		return object(0, f)
	case phaseLook:
		if o == outDiffers {
			return progress{phasePut, p.at}
		}
		return object(p.at+1, f)
	case phasePut:
		if f.plant.blind {
			return object(p.at+1, f)
		}
		return progress{phaseCheck, p.at}
	case phaseCheck:
		if o == outDiffers {
			return progress{phasePut, p.at}
		}
		return object(p.at+1, f)
	case phaseClaim:
		return progress{phaseMove, 0}
	case phaseMove:
		if o == outChanged {
			return progress{phaseHead, 0}
		}
		if f.plant.headFirst {
			return object(0, f)
		}
		return progress{phaseConfirm, 0}
	case phaseConfirm:
		switch o {
		case outOurs:
			return progress{phaseNote, 0}
		case outNewer:
			return progress{phaseDrop, 0}
		}
		return progress{phaseHead, 0} // the store forgot it at once
	}
	return progress{}
}

// begin goes on to the objects.
func begin(f facts) progress {
	if !f.built {
		return progress{phaseBuild, 0}
	}
	if f.plant.headFirst {
		return progress{phaseMove, 0}
	}
	return object(0, f)
}

// object goes on to object at, or behind the last.
func object(at int, f facts) progress {
	switch {
	case at >= f.objects && f.plant.headFirst:
		return progress{phaseConfirm, 0}
	case at >= f.objects:
		return progress{phaseClaim, 0}
	case at >= f.fresh:
		return progress{phasePut, at}
	}
	return progress{phaseLook, at}
}
