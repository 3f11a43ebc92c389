#include "grammar/general_category.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <array>

namespace pagoda::grammar {
namespace {

struct CategoryName {
  std::string_view long_name;
  std::string_view short_name;  // of one letter: all categories that begin with it
};

constexpr std::array kCategories = {
    CategoryName{"Letter", "L"},
    CategoryName{"Uppercase_Letter", "Lu"},
    CategoryName{"Lowercase_Letter", "Ll"},
    CategoryName{"Titlecase_Letter", "Lt"},
    CategoryName{"Modifier_Letter", "Lm"},
    CategoryName{"Other_Letter", "Lo"},
    CategoryName{"Mark", "M"},
    CategoryName{"Nonspacing_Mark", "Mn"},
    CategoryName{"Spacing_Mark", "Mc"},
    CategoryName{"Enclosing_Mark", "Me"},
    CategoryName{"Number", "N"},
    CategoryName{"Decimal_Number", "Nd"},
    CategoryName{"digit", "Nd"},
    CategoryName{"Letter_Number", "Nl"},
    CategoryName{"Other_Number", "No"},
    CategoryName{"Punctuation", "P"},
    CategoryName{"punct", "P"},
    CategoryName{"Connector_Punctuation", "Pc"},
    CategoryName{"Dash_Punctuation", "Pd"},
    CategoryName{"Open_Punctuation", "Ps"},
    CategoryName{"Close_Punctuation", "Pe"},
    CategoryName{"Initial_Punctuation", "Pi"},
    CategoryName{"Final_Punctuation", "Pf"},
    CategoryName{"Other_Punctuation", "Po"},
    CategoryName{"Symbol", "S"},
    CategoryName{"Math_Symbol", "Sm"},
    CategoryName{"Currency_Symbol", "Sc"},
    CategoryName{"Modifier_Symbol", "Sk"},
    CategoryName{"Other_Symbol", "So"},
    CategoryName{"Separator", "Z"},
    CategoryName{"Space_Separator", "Zs"},
    CategoryName{"Line_Separator", "Zl"},
    CategoryName{"Paragraph_Separator", "Zp"},
    CategoryName{"Other", "C"},
    CategoryName{"Control", "Cc"},
    CategoryName{"cntrl", "Cc"},
    CategoryName{"Format", "Cf"},
    CategoryName{"Private_Use", "Co"},
    CategoryName{"Unassigned", "Cn"},
};

CodeSet codes_with(std::string_view prefix) {
  CodeSet out;
  for (uint32_t code = 0; code <= kCodeMax; ++code) {
    const std::string_view category = utf8proc_category_string(static_cast<utf8proc_int32_t>(code));
    if (!category.starts_with(prefix)) continue;
    if (!out.empty() && out.back().last + 1 == code)
      out.back().last = code;
    else
      out.push_back({code, code});
  }
  return normalized(std::move(out));
}

}  // namespace

Result<CodeSet> general_category(std::string_view name) {
  for (const std::string_view key : {"General_Category=", "gc="})
    if (name.starts_with(key)) name.remove_prefix(key.size());
  if (name == "Any") return CodeSet{{0, 0xD7FF}, {0xE000, kCodeMax}};
  if (name == "ASCII") return CodeSet{{0, 0x7F}};
  for (const CategoryName& known : kCategories)
    if (name == known.long_name || name == known.short_name) return codes_with(known.short_name);
  return Error{Code::kUnsupported, fmt::format("no general category {}", name)};
}

}  // namespace pagoda::grammar
