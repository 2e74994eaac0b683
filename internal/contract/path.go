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
// where a name is the name of a field of the message that the path has reached or, at the end
// of the path, of one of its oneofs; a number is an index of a list, and a key is a key of a
// map. Connectors, which may be other processes, return paths too: a path is cut where it
// leaves the request.

// PathIn returns the longest prefix of a path that leads to a part of a message.
func PathIn(md protoreflect.MessageDescriptor, path string) string {
	end := 0 // of the valid prefix
	for rest := path; ; {
		name, after := cutName(rest)
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

// cutName splits a path after its first name.
func cutName(path string) (name, rest string) {
	if i := strings.IndexAny(path, ".["); i >= 0 {
		return path[:i], path[i:]
	}
	return path, ""
}

// subscript parses the subscript of a list or a map at the beginning of a path. part is the
// message in which the path may continue; nil: none.
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

// cutKey returns the text before the closing bracket. A quoted key may contain brackets.
func cutKey(text string) (key, rest string, closed bool) {
	if strings.HasPrefix(text, `"`) {
		quoted, err := strconv.QuotedPrefix(text)
		rest, closed = strings.CutPrefix(text[len(quoted):], "]")
		return quoted, rest, err == nil && closed
	}
	return strings.Cut(text, "]")
}
