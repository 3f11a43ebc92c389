#pragma once
// Owned by the jinja helper; replaced with the real value type.
