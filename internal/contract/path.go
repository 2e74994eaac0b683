package contract

import (
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Rules of this file: a path leads from a request to a part of it. Its grammar is
//
//	path = name *( "." name / "[" number "]" / "[" quoted key "]" )
//
// where a name is that of a field of the message that the path has come to or, at its end,
// of a oneof of it; a number is an index of a list, and a key one of a map. Connectors, which
// may be other processes, give paths too: a path ends where it leaves the request.

// PathIn returns the longest beginning of a path that leads to a part of a message.
func PathIn(md protoreflect.MessageDescriptor, path string) string {
	end := 0 // of what leads somewhere
	for rest := path; ; {
		name, after := untilMark(rest)
		fd := md.Fields().ByName(protoreflect.Name(name))
		if fd == nil {
			if oneof := md.Oneofs().ByName(protoreflect.Name(name)); oneof != nil && !oneof.IsSynthetic() {
				end = len(path) - len(after)
			}
			return strings.TrimSuffix(path[:end], ".")
		}
		end = len(path) - len(after)
		rest = after
		part, after, selected := subscript(fd, rest)
		if selected {
			end = len(path) - len(after)
			rest = after
		}
		if part == nil || !strings.HasPrefix(rest, ".") {
			return path[:end]
		}
		md, rest = part, rest[1:]
	}
}

// untilMark cuts a name off a path.
func untilMark(path string) (name, rest string) {
	if i := strings.IndexAny(path, ".["); i >= 0 {
		return path[:i], path[i:]
	}
	return path, ""
}

// subscript cuts off a path the element of a list or a map that it selects. part is the
// message that a path may go on into; nil: none.
func subscript(fd protoreflect.FieldDescriptor, path string) (part protoreflect.MessageDescriptor, rest string, selected bool) {
	many := fd.IsList() || fd.IsMap()
	if !strings.HasPrefix(path, "[") || !many {
		if many {
			return nil, path, false
		}
		return fd.Message(), path, false
	}
	key, rest, closed := cutKey(path[1:])
	if !closed {
		return nil, path, false
	}
	if fd.IsList() {
		_, err := strconv.ParseUint(key, 10, 31)
		return fd.Message(), rest, err == nil
	}
	if isText := fd.MapKey().Kind() == protoreflect.StringKind; isText != strings.HasPrefix(key, `"`) {
		return nil, path, false
	}
	return fd.MapValue().Message(), rest, true
}

// cutKey cuts off what stands before a closing bracket, which a quoted key may have, too.
func cutKey(text string) (key, rest string, closed bool) {
	if strings.HasPrefix(text, `"`) {
		quoted, err := strconv.QuotedPrefix(text)
		rest, closed = strings.CutPrefix(text[len(quoted):], "]")
		return quoted, rest, err == nil && closed
	}
	return strings.Cut(text, "]")
}
