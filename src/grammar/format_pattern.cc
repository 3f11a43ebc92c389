#include <fmt/format.h>

#include <array>
#include <string>

#include "core/check.h"
#include "grammar/schema.h"

namespace pagoda::grammar {
namespace {

// RFC 3339
const std::string kDate =
    "((\\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|1\\d|2[0-8])))"
    "|(\\d\\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29)";
const std::string kOffset = "([Zz]|[+-]([01]\\d|2[0-3]):[0-5]\\d)";
const std::string kTime =
    "((([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d+)?" + kOffset + ")|(23:59:60(\\.\\d+)?([Zz]|[+-]00:00)))";
// RFC 3339 appendix A
const std::string kDurationTime = "(T(\\d+H(\\d+M(\\d+S)?)?|\\d+M(\\d+S)?|\\d+S))";
const std::string kDuration =
    "P(\\d+W|(\\d+Y(\\d+M(\\d+D)?)?|\\d+M(\\d+D)?|\\d+D)" + kDurationTime + "?|" + kDurationTime + ")";
const std::string kOctet = "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
const std::string kIpv4 = "(" + kOctet + "\\.){3}" + kOctet;

// RFC 4291: up to eight groups, one :: for at least one of them, the last two perhaps as IPv4
std::string ipv6() {
  const std::string h = "[0-9A-Fa-f]{1,4}", tail = fmt::format("({0}:{0}|{1})", h, kIpv4);
  std::string out = fmt::format("({}:){{6}}{}", h, tail);
  for (int before = 0; before <= 7; ++before) {  // groups before the ::
    const std::string head = before == 0 ? "" : before == 1 ? h : fmt::format("{0}(:{0}){{{1}}}", h, before - 1);
    const int after = 7 - before;  // at most, and 0 of them is allowed
    std::string rest = "()";
    if (after >= 1) rest += fmt::format("|{}(:{}){{0,{}}}", h, h, after - 1);
    if (after >= 2) rest += fmt::format("|({}:){{0,{}}}{}", h, after - 2, kIpv4);
    out += fmt::format("|{}::({})", head, rest);
  }
  return "(" + out + ")";
}

// RFC 3986 appendix A
std::string uri(bool reference) {
  const std::string escaped = "%[0-9A-Fa-f]{2}", plain = "[A-Za-z0-9._~!$&'()*+,;=-]";
  const std::string pchar = fmt::format("({}|{}|[:@])", plain, escaped);
  const std::string host =
      fmt::format("(\\[({}|[vV][0-9A-Fa-f]+\\.[A-Za-z0-9._~!$&'()*+,;=:-]+)\\]|({}|{})*)", ipv6(), plain, escaped);
  const std::string authority = fmt::format("(({}|{}|:)*@)?{}(:\\d*)?", plain, escaped, host);
  const std::string segments = fmt::format("(/{}*)*", pchar);
  const std::string rest = fmt::format("(\\?({0}|[/?])*)?(#({0}|[/?])*)?", pchar);
  const std::string absolute = fmt::format("(//{0}{1}|/({2}+{1})?|{2}+{1}|())", authority, segments, pchar);
  const std::string whole = fmt::format("[A-Za-z][A-Za-z0-9+.-]*:{}{}", absolute, rest);
  if (!reference) return whole;
  const std::string first = fmt::format("({}|{}|@)", plain, escaped);  // no colon in a relative path's first part
  return fmt::format("({0}|(//{1}{2}|/({3}+{2})?|{4}+{2}|()){5})", whole, authority, segments, pchar, first, rest);
}

const std::string kLabel = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
const std::string kAtom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
const std::string kPointer = "(/([^~/]|[\\n\\r\\u2028\\u2029]|~[01])*)*";

std::string text_of(std::string_view name) {
  if (name == "date") return kDate;
  if (name == "time") return kTime;
  if (name == "date-time") return kDate + "[Tt]" + kTime;
  if (name == "duration") return kDuration;
  if (name == "ipv4") return kIpv4;
  if (name == "ipv6") return ipv6();
  if (name == "uuid") return "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}";
  if (name == "uri") return uri(false);
  if (name == "uri-reference") return uri(true);
  if (name == "hostname") return kLabel + "(\\." + kLabel + ")*";
  if (name == "email") return kAtom + "(\\." + kAtom + ")*@" + kLabel + "(\\." + kLabel + ")*";
  if (name == "json-pointer") return kPointer;
  if (name == "relative-json-pointer") return "(0|[1-9]\\d*)(#|" + kPointer + ")";
  return "";
}

}  // namespace

PatternPtr format_pattern(std::string_view name) {
  const std::string text = text_of(name);
  if (text.empty()) return nullptr;
  const auto parsed = parse_regex("^(" + text + ")$");
  PAGODA_CHECK(parsed.ok());
  return parsed.value();
}

}  // namespace pagoda::grammar
