package signed

// planted are faults that tests must find.
type planted struct {
	anyRole     bool // a key counts whatever its role is
	twice       bool // two signatures of a key count as two
	wrongPasses bool // a wrong signature is passed over
	typeUnbound bool // a signature holds for the payload under any type
	oldAlone    bool // a root needs no signature of its own keys
	newAlone    bool // a root needs no signature of the keys before
	anyNext     bool // any root follows any other
	parseFirst  bool // the payload of a root is parsed before its signatures are asked
	loose64     bool // base64 in any writing
}
