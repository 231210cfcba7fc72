package nbd

// Numbers of the protocol, as doc/proto.md names them.
const (
	magicServer  = 0x4e42444d41474943 // NBDMAGIC
	magicOption  = 0x49484156454f5054 // IHAVEOPT
	magicOpReply = 0x3e889045565a9
	magicRequest = 0x25609513
	magicReply   = 0x67446698

	// Handshake flags, of server and client alike.
	flagFixedNewstyle = 1 << 0
	flagNoZeroes      = 1 << 1

	optExportName = 1
	optAbort      = 2
	optList       = 3
	optInfo       = 6
	optGo         = 7

	repAck        = 1
	repServer     = 2
	repInfo       = 3
	repErrUnsup   = 1<<31 + 1
	repErrInvalid = 1<<31 + 3
	repErrUnknown = 1<<31 + 6
	repErrTooBig  = 1<<31 + 9

	infoExport    = 0
	infoBlockSize = 3

	// Transmission flags: what the export can.
	hasFlags        = 1 << 0
	sendFlush       = 1 << 2
	sendFUA         = 1 << 3
	sendTrim        = 1 << 5
	sendWriteZeroes = 1 << 6

	cmdRead        = 0
	cmdWrite       = 1
	cmdDisconnect  = 2
	cmdFlush       = 3
	cmdTrim        = 4
	cmdWriteZeroes = 6

	cmdFlagFUA    = 1 << 0
	cmdFlagNoHole = 1 << 1

	errIO    = 5
	errInval = 22
)

// abilities are the transmission flags of every export. Several connections to one disk would see each other's writes, but no client of ours opens more than one.
const abilities = hasFlags | sendFlush | sendFUA | sendTrim | sendWriteZeroes

const (
	optionBytesMax  = 64 << 10 // of an option's data: a name and a few numbers
	payloadBytesMax = 32 << 20 // of a read or write, as told in the handshake
	blockBytesMin   = 512
	blockBytesBest  = 4096
)

// optionHeader comes before an option's data.
type optionHeader struct {
	Magic  uint64
	Option uint32
	Bytes  uint32
}

// request is one of the transmission phase, 28 bytes on the wire, before a write's data.
type request struct {
	Magic  uint32
	Flags  uint16
	Type   uint16
	Cookie uint64
	Offset uint64
	Bytes  uint32
}

// reply is a simple one, 16 bytes on the wire, before a read's data.
type reply struct {
	Magic  uint32
	Error  uint32
	Cookie uint64
}
