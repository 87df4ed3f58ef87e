cpdef Py_ssize_t list_item(const unsigned char* p, Py_ssize_t at, Py_ssize_t end, Py_ssize_t index) noexcept
cpdef Py_ssize_t compound_end(const unsigned char* p, Py_ssize_t at, Py_ssize_t end, Py_ssize_t short_code) noexcept
cpdef Py_ssize_t text_start(const unsigned char* p, Py_ssize_t position) noexcept
cpdef Py_ssize_t skip(const unsigned char* p, Py_ssize_t position, Py_ssize_t end) noexcept
cpdef Py_ssize_t section_code(const unsigned char* p, Py_ssize_t position, Py_ssize_t end) noexcept
cpdef Py_ssize_t after_descriptor(const unsigned char* p, Py_ssize_t position) noexcept
cpdef bint is_integer(Py_ssize_t code) noexcept
cpdef long long integer(const unsigned char* p, Py_ssize_t at) noexcept
